// Package idl has the messages of Unitree's robots, the Go2 (unitree_go) and the G1
// (unitree_hg), as they lie in the memory of a C program, with the descriptors that
// Cyclone DDS needs to send them.
//
// generate/unitree.idl declares the messages. generate/generate.sh makes descriptors.go and
// offsets_test.go from it, with which a test compares the structs of this package.
//
// The checksum of a message is CRC-32/MPEG-2 over the C struct with zeros between
// its members, without its last word. It is not over the bytes on the wire.
package idl

//go:generate generate/generate.sh
