// Package fused has one product that arm64 fuses, and one that it does not.
package fused

// Sum returns a·b + c.
func Sum(a, b, c float64) float64 { return a*b + c }

// Exact returns a·b + c, rounded twice.
func Exact(a, b, c float64) float64 { return float64(a*b) + c }
