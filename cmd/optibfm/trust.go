package main

import (
	"fmt"

	"optibfm/controller"
)

// trustText says how much a label counted that might have been doubted, by the share
// of its weight that it was given.
func trustText(share float64) string {
	text := fmt.Sprintf("counted %.2f", share)
	if share < controller.Doubted {
		text += ": it surprised the belief"
	}
	return text
}
