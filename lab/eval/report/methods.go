package report

import (
	"cmp"
	"slices"
	"strings"
)

// Methods that the declarations name. A results file may have others: they are
// shown after these.
const (
	ucb         = "ucb"
	thompson    = "thompson"
	ucbEP       = "ucb_ep"
	thompsonEP  = "thompson_ep"
	ucbGradient = "ucb_gradient"
	ucbSphere   = "ucb_sphere"
	lola        = "lola"
	random      = "random"
	oracle      = "oracle"
	collected   = "collected"
	rnd         = "rnd" // of collected: by
)

var methodOrder = []string{ucb, thompson, ucbEP, thompsonEP, ucbGradient, ucbSphere, lola, random, oracle}

func compareMethods(a, b string) int {
	return cmp.Or(cmp.Compare(methodRank(a), methodRank(b)), strings.Compare(a, b))
}

func methodRank(method string) int {
	if i := slices.Index(methodOrder, method); i >= 0 {
		return i
	}
	return len(methodOrder)
}
