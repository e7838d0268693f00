package roof_test

import (
	"fmt"
	"os"
	"time"

	"optibfm/tflite/roof"
)

// The most that a product of 2 operations a byte can reach on one core, its
// weights in a megabyte.
func Example() {
	levels, _ := roof.Levels(os.DirFS("/sys")) // without /sys there is the memory alone
	level := roof.Of(levels, 1<<20)
	buffer := roof.NewBuffer(level.Buffer)

	start := time.Now()
	flops := roof.MultiplyAdds(100_000)
	peak := float64(flops) / time.Since(start).Seconds()

	start = time.Now()
	bytes := roof.Read(buffer)
	bandwidth := float64(bytes) / time.Since(start).Seconds()

	fmt.Println(min(peak, 2*bandwidth) > 0)
	// Output: true
}
