// Package configfile lists, writes and checks configurations.
//
// The subcommands of `optibfm config` call it. Package configs defines and parses the
// configuration; this package prints its results and compares a configuration with
// the model that it names.
package configfile
