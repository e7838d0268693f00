// Package body has the body trees of Unitree's robots. scripts/body_tables.py writes them from the public MJCF models.
package body
