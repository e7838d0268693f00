// Package plaintext formats text for terminals and logs: it removes what a terminal would interpret
// ([Clean]), wraps lines ([Wrap]), shortens sizes and hashes ([Bytes], [ShortHash]) and makes names
// of files ([FileName]).
//
// Text from files, devices and other processes passes through Clean before it reaches a terminal.
package plaintext
