package plaintext

import "strings"

// FileName replaces the characters of a name that are not safe in shells and file systems by
// hyphens, and shortens it.
func FileName(name string) string {
	const longest = 100 // of the 255 bytes that a file name may have
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, name)
	return safe[:min(len(safe), longest)]
}
