"""Who is who on a host, and what its daemons keep."""
