package keyboard

import "optibfm/rewardsrc"

// inputOf returns the meaning of a key; ok is false for a key that gives no label.
func (c *Config) inputOf(k Key) (in rewardsrc.Input, ok bool) {
	value := func(v float64) (rewardsrc.Input, bool) {
		return rewardsrc.Input{Kind: rewardsrc.Value, Value: v}, true
	}
	switch k {
	case '+', '=': // = is + without shift on many layouts
		return value(c.GoodValue)
	case '-':
		return value(c.BadValue)
	case '0':
		return value(c.NeutralValue)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return value(c.BadValue + (c.GoodValue-c.BadValue)*float64(k-'1')/8)
	case '>':
		return rewardsrc.Better(c.GoodValue, c.BadValue), true
	case '<':
		return rewardsrc.Worse(c.GoodValue, c.BadValue), true
	case 'g':
		return rewardsrc.AtGoal(c.GoodValue, c.BadValue), true
	case 'u', Backspace, '\b':
		return rewardsrc.Input{Kind: rewardsrc.Undo}, true
	case 'k':
		return rewardsrc.Input{Kind: rewardsrc.Keep}, true
	case '?', 't':
		return rewardsrc.Input{Kind: rewardsrc.CantTell}, true
	}
	return rewardsrc.Input{}, false
}
