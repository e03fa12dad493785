"""Studies of the dissertation on power-modulated datacenters: one setting, three pages."""
