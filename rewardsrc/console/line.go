package console

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"optibfm/rewardsrc"
)

// ErrLine is wrapped by the errors for invalid lines.
var ErrLine = errors.New("not understood")

// valid lists the valid lines.
const valid = "+, -, a number, >, <, g, ?, u or k"

// maxReward bounds the size of a reward: a larger one is a typing error.
const maxReward = 1000

// parseLine returns the meaning of a line; Kind is 0 for an empty one.
func parseLine(line string, good, bad float64) (rewardsrc.Input, error) {
	switch text := strings.TrimSpace(line); {
	case text == "" || text[0] == '#':
		return rewardsrc.Input{}, nil
	case text == "+":
		return rewardsrc.Input{Kind: rewardsrc.Value, Value: good}, nil
	case text == "-":
		return rewardsrc.Input{Kind: rewardsrc.Value, Value: bad}, nil
	case text == ">":
		return rewardsrc.Better(good, bad), nil
	case text == "<":
		return rewardsrc.Worse(good, bad), nil
	case text == "g":
		return rewardsrc.AtGoal(good, bad), nil
	case text == "u":
		return rewardsrc.Input{Kind: rewardsrc.Undo}, nil
	case text == "k":
		return rewardsrc.Input{Kind: rewardsrc.Keep}, nil
	case text == "?":
		return rewardsrc.Input{Kind: rewardsrc.CantTell}, nil
	default:
		return parseReward(text)
	}
}

func parseReward(text string) (rewardsrc.Input, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return rewardsrc.Input{}, fmt.Errorf("%w (%q); write %s", ErrLine, text, valid)
	}
	if math.IsNaN(value) || math.Abs(value) > maxReward {
		return rewardsrc.Input{}, fmt.Errorf("%w (%q); write a reward from %d to %d", ErrLine, text,
			-maxReward, maxReward)
	}
	return rewardsrc.Input{Kind: rewardsrc.Value, Value: value}, nil
}
