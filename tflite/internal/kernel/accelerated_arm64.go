//go:build !noasm

package kernel

// accelerated: every arm64 processor has NEON.
const accelerated = true
