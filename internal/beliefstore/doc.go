// Package beliefstore keeps a belief on disk, so that what a robot has learnt
// outlives the process that learnt it.
//
// A folder holds one [Record]: the belief, and what it is worth nothing without,
// the model's hash and σ. [Store.Save] replaces it so that a process that dies
// at any moment, and a power failure, leave the old record or the new one:
// the new one is written beside it, synced, renamed, and the rename synced. A
// Store locks its folder; [Load] needs no lock.
//
// The file "belief" is, in this order:
//
//	one line     JSON: what [Record] says besides the belief
//	a snapshot   posterior.Belief.MarshalBinary, with d, λ and ρ
//	8 bytes      xxHash64 (seed 0) of everything before, little end first
package beliefstore
