# For the system that gmvd is installed in: a systemd unit and shell completions. systemd and the shells look in
# these folders below /usr and /usr/local; elsewhere: make install systemdsystemunitdir=...
EXTRA_DIST += contrib/completion/gmvd.bash contrib/systemd/gmvd.service.in

zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = contrib/completion/_gmvd
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = contrib/completion/gmvd.fish

systemdsystemunitdir = $(prefix)/lib/systemd/system
nodist_systemdsystemunit_DATA = contrib/systemd/gmvd.service
CLEANFILES += contrib/systemd/gmvd.service
contrib/systemd/gmvd.service: $(top_srcdir)/contrib/systemd/gmvd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/systemd && \
	sed 's|@bindir[@]|$(bindir)|g' $(top_srcdir)/contrib/systemd/gmvd.service.in >$@-t && mv -f $@-t $@

# bash wants the command's own name.
bashcompletiondir = $(datadir)/bash-completion/completions
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletiondir)'
	$(INSTALL_DATA) $(top_srcdir)/contrib/completion/gmvd.bash '$(DESTDIR)$(bashcompletiondir)/gmvd'
uninstall-local:
	rm -f '$(DESTDIR)$(bashcompletiondir)/gmvd'
