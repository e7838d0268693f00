package recorder

import (
	"fmt"
	"testing"

	"optibfm/controller"
)

func TestStatistics_BoundsTheReturns(t *testing.T) {
	y := NewStatistics(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	const n = 10 * maxReturns
	for i := range n {
		y.addReturn(float64(i))
	}
	if y.Episodes != n || len(y.Returns) > maxReturns || cap(y.Returns) > 2*maxReturns {
		t.Errorf("%d episodes, %d returns, room for %d", y.Episodes, len(y.Returns), cap(y.Returns))
	}
	newest := y.Returns[len(y.Returns)-1000:]
	if first := fmt.Sprint(y.Returns[:5]); first != "[0 1 2 3 4]" || newest[0] != n-1000 || newest[999] != n-1 {
		t.Errorf("first %s, newest %v to %v", first, newest[0], newest[999])
	}
}
