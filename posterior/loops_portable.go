//go:build noasm || !amd64

package posterior

func rotate(a, b []float64, c, s float64) { portableRotate(a, b, c, s) }

func subtractTwo(dst, a, b []float64, s, t float64) { portableSubtractTwo(dst, a, b, s, t) }

func dotTwo(a, b, x []float64) (float64, float64) { return portableDotTwo(a, b, x) }

func solveRows(r, x []float64, block [][4]float64) { portableSolveRows(r, x, len(block)) }
