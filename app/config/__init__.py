"""The configuration of an installation: ``config.env``, its typed settings and their snapshot; keys, files, folders."""
