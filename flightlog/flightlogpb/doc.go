// Package flightlogpb holds the protobuf messages of a flight log, generated
// from flightlog.proto, and that of its pictures, from compressed_image.proto. The same
// definitions travel inside every file, so that other tools read it without this package.
package flightlogpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative flightlog.proto compressed_image.proto
