# The manual page, and one page for each thing that a user wants to do.
dist_man8_MANS = docs/gmvd.8
