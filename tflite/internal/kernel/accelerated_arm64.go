//go:build !noasm

package kernel

// accelerated is true: every arm64 processor has NEON.
const accelerated = true
