# Example programs.
