package shm

import (
	"testing"

	"pgregory.net/rapid"
)

func TestMailbox_GivesTheNewestMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(Layout{Sections: []Section{{Name: "m", Kind: KindMailbox, Size: 8}}})
		if err != nil {
			t.Fatal(err)
		}
		w, _ := s.MailboxWriter("m")
		r, _ := s.MailboxReader("m")
		var published, read uint64
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) {
				published++
				numbers[uint64](w.Buffer())[0] = published
				w.Publish()
			},
			"scribble": func(*rapid.T) { numbers[uint64](w.Buffer())[0] = 1 << 60 },
			"read": func(t *rapid.T) {
				buf, fresh := r.Read()
				if fresh != (published > read) {
					t.Fatalf("fresh is %v after %d published and %d read", fresh, published, read)
				}
				if published == 0 {
					if buf != nil {
						t.Fatal("an unknown message")
					}
					return
				}
				read = published
				if got := numbers[uint64](buf)[0]; got != published {
					t.Fatalf("read %d, the newest is %d", got, published)
				}
			},
		})
		if w.Err() != nil || r.Err() != nil {
			t.Fatal(w.Err(), r.Err())
		}
	})
}

func BenchmarkMailbox(b *testing.B) {
	w, r := mailboxOf(b, heap(b, twoWay().Sections...), "state")
	b.ReportAllocs()
	for b.Loop() {
		w.Publish()
		r.Read()
	}
}
