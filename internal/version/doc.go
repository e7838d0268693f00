// Package version returns the version of the program for --version, logs and bundles.
package version
