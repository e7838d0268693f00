package npz_test

import (
	"bytes"
	"fmt"

	"optibfm/internal/npz"
)

func Example() {
	var file bytes.Buffer
	obs := npz.Float32([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	if err := npz.Write(&file, npz.Archive{"obs": obs}); err != nil {
		fmt.Println(err)
		return
	}
	archive, err := npz.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := archive.Shaped("obs", -1, 2)
	fmt.Println(back.Shape(), back.Float64s(), err)
	// Output: [3 2] [1 2 3 4 5 6] <nil>
}
