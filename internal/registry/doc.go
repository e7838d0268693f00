// Package registry holds the robots, backends and embedded models of a program; internal/sections
// has the sections of all drivers and the label devices. A driver registers its name, the default
// of its section of the configuration, and how it is opened. Package configs reads the sections,
// internal/setup and internal/host open the chosen drivers. Package optibfm is the public form of
// this package; the packages below hal and rewardsrc register theirs by their functions Register.
//
// The section of a driver is a struct with yaml tags and rules (internal/keys). Its methods, all
// optional, say what the program must know before it opens the driver: see [Simulator] and the
// interfaces beside it.
//
// Registration happens before main, on one goroutine. A mistake in it is one of the program: it
// panics.
package registry
