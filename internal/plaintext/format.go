package plaintext

import (
	"fmt"
	"strings"
)

// Bytes formats a size in bytes, KiB or MiB.
func Bytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// ShortHash returns the first 16 digits of a hash, or "unknown".
func ShortHash(hash string) string {
	if hash == "" {
		return "unknown"
	}
	return hash[:min(len(hash), 16)]
}

// Numbers lists numbers in a format, without the middle of a long list.
func Numbers(format string, numbers []float64) string {
	const edge = 5
	var parts []string
	for i, x := range numbers {
		switch long := len(numbers) > 2*edge; {
		case long && i == edge:
			parts = append(parts, "...")
		case !long || i < edge || i >= len(numbers)-edge:
			parts = append(parts, fmt.Sprintf(format, x))
		}
	}
	return strings.Join(parts, " ")
}
