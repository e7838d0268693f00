// Package decimal refuses numbers that programs read differently.
//
// In YAML 1.1 and in Go's base 0, 010 is 8; elsewhere it is 10. Check refuses such a number
// wherever optibfm reads one that a person wrote.
package decimal

import (
	"fmt"
	"regexp"
	"strings"
)

var leadingZero = regexp.MustCompile(`^\s*[-+]?0[0-9_]`)

// Check returns an error for a number that begins with a superfluous zero, such as 010 or -00.5. It
// accepts every other text.
func Check(text string) error {
	if !leadingZero.MatchString(text) {
		return nil
	}
	text = strings.TrimSpace(text)
	return fmt.Errorf("the number begins with 0 (%.20q), which may mean octal; write it without leading zeros", text)
}
