"""Reports from users of systems that do parts of this job, as tests of the right behaviour here."""
