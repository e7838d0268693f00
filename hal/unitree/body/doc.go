// Package body estimates what models read and Unitree's robots do not measure: velocity and height
// of a Go2's base, and BFM-Zero's privileged_state of a G1.
//
// tables.go has the body trees, which scripts/body_tables.py reads from the public MJCF models.
package body
