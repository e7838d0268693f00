package rewardsrc

import (
	"errors"
	"fmt"
)

// CheckRange returns an error for a configuration value outside [low, high],
// NaN included. key is its name, such as "keyboard: reaction_ms".
func CheckRange(key string, v, low, high float64) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%s is out of range (%g); choose a value from %g to %g", key, v, low, high)
}

// CheckButtons checks the settings that all devices with buttons share: the
// rewards of good and bad, and the times of a press in milliseconds. source is
// the package of the device.
func CheckButtons(source string, good, bad, refractoryMS, reactionMS float64) error {
	errs := []error{
		CheckRange(source+": good_value", good, -1000, 1000),
		CheckRange(source+": bad_value", bad, -1000, 1000),
		CheckRange(source+": refractory_ms", refractoryMS, 0, 5000),
		CheckRange(source+": reaction_ms", reactionMS, 0, 2000),
	}
	if good <= bad {
		errs = append(errs, fmt.Errorf("%s: good_value is not above bad_value (%g, %g); swap them", source, good, bad))
	}
	return errors.Join(errs...)
}
