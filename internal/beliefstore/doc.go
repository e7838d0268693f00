// Package beliefstore keeps a belief on disk between runs.
//
// A folder holds one [Record]: the belief, the hash of its model and σ.
// [Store.Save] replaces the record atomically. If the process or the power fails
// at any moment, the old or the new record remains: Save writes the new file,
// syncs it, renames it and syncs the folder. A Store locks its folder; [Load]
// needs no lock.
//
// The file "belief" is a file of package sealed: one line of JSON has the fields of
// [Record] except the belief, the body is posterior.Belief.MarshalBinary, with d, λ
// and ρ.
package beliefstore
