// Package plaintext formats text for terminals and logs: it removes what a terminal would interpret
// ([Clean]), wraps lines ([Wrap]) and shortens sizes and hashes ([Bytes], [ShortHash]).
//
// Text from files, devices and other processes passes through Clean before it reaches a terminal.
package plaintext
