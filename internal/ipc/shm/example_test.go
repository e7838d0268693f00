package shm_test

import (
	"fmt"

	"optibfm/internal/ipc/shm"
)

type pose struct {
	Tick    uint64
	X, Y    float32
	Heading float32
	_       [4]byte
}

func Example() {
	view, err := shm.NewView[pose]()
	if err != nil {
		fmt.Println(err)
		return
	}
	segment, err := shm.New(shm.Layout{
		Version: 1,
		Sections: []shm.Section{
			{Name: "state", Kind: shm.KindMailbox, Size: view.Size()},
			{Name: "ticks", Kind: shm.KindRing, Size: 8, Slots: 2},
			{Name: "stop", Kind: shm.KindWord},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The newest state wins.
	writer, _ := segment.MailboxWriter("state")
	reader, _ := segment.MailboxReader("state")
	for tick := uint64(1); tick <= 3; tick++ {
		*view.At(writer.Buffer()) = pose{Tick: tick, X: 0.5}
		writer.Publish()
	}
	buf, fresh := reader.Read()
	fmt.Println("state of tick", view.At(buf).Tick, fresh)

	// Every tick that fits is kept, and the others are counted.
	producer, _ := segment.Producer("ticks")
	consumer, _ := segment.Consumer("ticks")
	for tick := range byte(3) {
		if slot, ok := producer.Reserve(); ok {
			slot[0] = tick
			producer.Commit()
		}
	}
	for {
		slot, ok := consumer.Peek()
		if !ok {
			break
		}
		fmt.Println("tick", slot[0])
		consumer.Release()
	}
	fmt.Println("dropped", consumer.Dropped())

	// Output:
	// state of tick 3 true
	// tick 0
	// tick 1
	// dropped 1
}
