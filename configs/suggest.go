package configs

import (
	"fmt"
	"strings"
)

// suggest proposes the nearest of the choices, or all of them.
func suggest(found string, choices []string) string {
	if near := Nearest(found, choices); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(choices, ", ")
}

// formerKeys are the renamed and removed keys of earlier programs, each with a fix.
var formerKeys = map[string]string{
	"controller.label_range":                 "remove it: the range is that of the operator's labels",
	"controller.robust":                      "remove it: mistakes weigh less with controller.noise.estimate",
	"operator.scripted.drift.std_per_minute": "use operator.scripted.drift.minute_std",
	"operator.web.mode":                      "use operator.label_mode (sparse is now any)",
	"robot.composite.history":                "use model.groups",
}

// unknownKey is the message about a path. Its first unknown key is key, at keyPath.
func unknownKey(path, key, keyPath string, known []string) string {
	fix, ok := formerKeys[keyPath]
	if !ok {
		fix = suggest(key, known)
	}
	return fmt.Sprintf("unknown key %s; %s", shorten(path), fix)
}

// Nearest returns the choice with the fewest typing errors from found, "" if
// all have many.
func Nearest(found string, choices []string) string {
	best, bestDistance := "", 1+max(1, len(found)/3)
	for _, c := range choices {
		if d := distance(strings.ToLower(found), c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours from a to b (optimal string alignment). Long texts are far apart.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	var d [long + 1][long + 1]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
