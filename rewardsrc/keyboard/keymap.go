package keyboard

import "optibfm/rewardsrc"

// meaning is what a key says as a label.
type meaning struct {
	kind  rewardsrc.Kind
	value float64
}

// meaningOf returns what a key says; ok is false for keys that say nothing.
func (c *Config) meaningOf(k Key) (m meaning, ok bool) {
	switch k {
	case '+', '=': // = is + without shift on many layouts
		return meaning{rewardsrc.Value, c.GoodValue}, true
	case '-':
		return meaning{rewardsrc.Value, c.BadValue}, true
	case '0':
		return meaning{rewardsrc.Value, c.NeutralValue}, true
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		grade := float64(k-'1') / 8
		return meaning{rewardsrc.Value, c.BadValue + (c.GoodValue-c.BadValue)*grade}, true
	case 'u', Backspace, '\b':
		return meaning{kind: rewardsrc.Undo}, true
	case '?', 't':
		return meaning{kind: rewardsrc.CantTell}, true
	}
	return meaning{}, false
}
