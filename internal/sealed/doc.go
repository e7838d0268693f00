// Package sealed keeps small files that are complete or absent.
//
// A file consists of
//
//	one line  JSON with the key "format"
//	a body    bytes, may be empty
//	8 bytes   xxHash64 (seed 0) of everything before, little-endian
//
// [Append] and [Parse] convert between a file and its parts. [Replace] writes a
// file atomically: if the process or the power fails at any moment, the old or the
// new file remains. [Read] reads only regular files of a limited size.
package sealed
