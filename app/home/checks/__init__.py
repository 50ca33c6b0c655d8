"""Looking at an installation without changing anything: what is wrong, what will run, what is where."""
