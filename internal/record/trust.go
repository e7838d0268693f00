package record

import (
	"fmt"

	"optibfm/controller"
)

// WeightText says how much a label counted that might have been doubted, by the share
// of its weight that it was given.
func WeightText(share float64) string {
	text := fmt.Sprintf("counted %.2f", share)
	if share < controller.Doubted {
		text += ": it surprised the belief"
	}
	return text
}
