// Package journal gives lines a priority in systemd's journal. The journal reads it from a prefix
// such as <3> (sd-daemon(3)).
package journal
