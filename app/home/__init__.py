"""An installation as a whole: who owns it, making one, checking one, saving and restoring one."""
