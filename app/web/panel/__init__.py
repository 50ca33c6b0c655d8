"""The admin panel: pages below ``/AdminPanel``, one file each, and the frame around them."""
