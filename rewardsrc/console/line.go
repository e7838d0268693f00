package console

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"optibfm/rewardsrc"
)

// ErrLine is wrapped by the errors for lines that are not understood.
var ErrLine = errors.New("not understood")

// maxReward bounds the size of a reward: more is a slip of the finger.
const maxReward = 1000

// entry is what a line says; kind 0 says nothing.
type entry struct {
	kind  rewardsrc.Kind
	value float64
}

func parseLine(line string, good, bad float64) (entry, error) {
	switch text := strings.TrimSpace(line); {
	case text == "" || text[0] == '#':
		return entry{}, nil
	case text == "+":
		return entry{rewardsrc.Value, good}, nil
	case text == "-":
		return entry{rewardsrc.Value, bad}, nil
	case text == "u":
		return entry{kind: rewardsrc.Undo}, nil
	case text == "?":
		return entry{kind: rewardsrc.CantTell}, nil
	default:
		return parseReward(text)
	}
}

func parseReward(text string) (entry, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return entry{}, fmt.Errorf("%w (%q): write +, -, a number, ? or u", ErrLine, text)
	}
	if math.IsNaN(value) || math.Abs(value) > maxReward {
		return entry{}, fmt.Errorf("%w (%q): write a reward from %d to %d", ErrLine, text, -maxReward, maxReward)
	}
	return entry{rewardsrc.Value, value}, nil
}
