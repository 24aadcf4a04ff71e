// Asks a gateway over gRPC, prints the answer as it comes, and tells how many tokens a round of speculation made.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"

	pb "espalier/v1"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: ask HOST:PORT QUESTION")
	}
	if err := ask(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func ask(gateway, question string) error {
	// Newer versions of grpc-go also have NewClient and credentials/insecure for this.
	connection, err := grpc.Dial(gateway, grpc.WithInsecure())
	if err != nil {
		return err
	}
	defer connection.Close()
	// What is not answered within a minute is given up; cancelling frees all that the request holds.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	seed := uint64(7)
	said := &pb.ChatMessage{Role: "user", Content: question}
	events, err := pb.NewGenerationClient(connection).Generate(ctx, &pb.GenerateRequest{
		Target:    "medium",
		Prompt:    &pb.GenerateRequest_Conversation{Conversation: &pb.Conversation{Messages: []*pb.ChatMessage{said}}},
		MaxTokens: 48,
		Sampling:  &pb.Sampling{Temperature: 0.8, Seed: &seed},
	})
	if err != nil {
		return err
	}
	for {
		next, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the answer ended before it was finished")
		}
		if err != nil {
			return err
		}
		switch event := next.Event.(type) {
		case *pb.GenerateResponse_Chunk:
			for _, token := range event.Chunk.Tokens {
				fmt.Print(token.Text)
			}
		case *pb.GenerateResponse_Finished:
			end := event.Finished
			fmt.Printf("%s\n", end.Text)
			fmt.Printf("%d tokens, %.2f a round\n", end.Usage.CompletionTokens, end.Statistics.GetTau())
			return nil
		}
	}
}
