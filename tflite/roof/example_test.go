package roof_test

import (
	"fmt"
	"time"

	"optibfm/tflite/roof"
)

// The most that a product of 2 operations a byte can reach on one core, its
// weights in a megabyte.
func Example() {
	buffer := roof.NewBuffer(1 << 20)

	start := time.Now()
	flops := roof.MultiplyAdds(100_000)
	peak := float64(flops) / time.Since(start).Seconds()

	start = time.Now()
	bytes := roof.Read(buffer)
	bandwidth := float64(bytes) / time.Since(start).Seconds()

	fmt.Println(min(peak, 2*bandwidth) > 0)
	// Output: true
}
