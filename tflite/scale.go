package tflite

import (
	"fmt"
	"math"
)

// Limits of CheckScale, in standard deviations of the training data.
const (
	farDeviations   = 20   // a value beyond them is not of the training's distribution
	smallDeviations = 0.02 // a channel that varies by less may have another unit
)

// CheckScale compares observations [n, O] with the mean and the variance of the training data,
// which the normaliser of a bundle has, and describes the channels of another scale. A bundle
// without a normaliser has nothing to compare.
func (b *Bundle) CheckScale(obs []float32) (warnings []string) {
	const shown = 10 // channels
	mean, scale := b.Normaliser()
	width, more := len(mean), 0
	for c := range width {
		if mean[c] == 0 && scale[c] == 1 {
			continue // of a group without a normaliser
		}
		text := scaleWarning(obs[c:], width, float64(mean[c]), float64(scale[c]))
		switch {
		case text == "":
		case len(warnings) == shown:
			more++
		default:
			warnings = append(warnings, b.channelName(c)+": "+text)
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("and %d more channels", more))
	}
	return warnings
}

// scaleWarning compares one channel: every width-th value.
func scaleWarning(values []float32, width int, mean, scale float64) string {
	var far, n int
	var largest, sum, squares float64
	for i := 0; i < len(values); i += width {
		u := (float64(values[i]) - mean) * scale
		if !(math.Abs(u) <= farDeviations) { // also NaN
			far++
		}
		if math.Abs(u) >= math.Abs(largest) {
			largest = u
		}
		n, sum, squares = n+1, sum+u, squares+u*u
	}
	training := fmt.Sprintf("the training's mean %.3g and deviation %.3g", mean, 1/scale)
	if far > 0 {
		return fmt.Sprintf("%d of %d values are more than %d deviations from %s, the farthest %.3g; "+
			"check unit, scale and order of the channels", far, n, farDeviations, training, mean+largest/scale)
	}
	average := sum / float64(n)
	spread := math.Sqrt(max(0, squares/float64(n)-average*average))
	if n > 1 && spread > 1e-6 && spread < smallDeviations {
		return fmt.Sprintf("the values vary by %.2g deviations only (%s); check their unit and scale", spread, training)
	}
	return ""
}

// channelName names an element of the observation.
func (b *Bundle) channelName(c int) string {
	if c < len(b.Observation) && b.Observation[c].Name != "" {
		return fmt.Sprintf("channel %d (%s)", c, b.Observation[c].Name)
	}
	at := c
	for _, g := range b.Architecture.Groups {
		if at < g.Size {
			return fmt.Sprintf("channel %d (%s[%d])", c, g.Name, at)
		}
		at -= g.Size
	}
	return fmt.Sprintf("channel %d", c)
}
