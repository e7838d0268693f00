//go:build race

package cli

func init() { raced = true }
