package record

import (
	"fmt"

	"optibfm/controller"
)

// WeightText describes the share of its weight that a robust belief left to a label.
func WeightText(share float64) string {
	text := fmt.Sprintf("counted %.2f", share)
	if share < controller.FullShare {
		text += ": it surprised the belief"
	}
	return text
}
