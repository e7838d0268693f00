package configs

import (
	"slices"
	"strings"
)

// suggest says what could have been meant: the nearest of the choices, or all
// of them.
func suggest(found string, choices []string) string {
	if near := nearest(found, choices); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(choices, ", ")
}

// renamed are the keys of earlier versions that others replaced, and what to do
// with one in a file that was kept.
var renamed = map[string]string{
	"operator.web.mode": "operator.label_mode replaced it (sparse is now any)",
}

// suggestKey says what to write for a key that there is not at this path.
func suggestKey(path, key string, keys []string) string {
	if mend, ok := renamed[path]; ok {
		return mend
	}
	return suggest(key, keys)
}

// nearest returns the choice that a few typing errors away from found, or "".
func nearest(found string, choices []string) string {
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
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
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

// sorted is a sorted copy.
func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
