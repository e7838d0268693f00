package rewardsrc

import "fmt"

// CheckButtons checks that good is above bad. source is the package of the device.
func CheckButtons(source string, good, bad float64) error {
	if good <= bad {
		return fmt.Errorf("%s: good_value is not above bad_value (%g, %g); swap them", source, good, bad)
	}
	return nil
}
