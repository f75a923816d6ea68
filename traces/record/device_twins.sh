# Twins of one device among several, with PyTorch's own wrappers; these want real tensors, on a
# device.  Read by make_all.sh, columns as in twins.sh.

plain=bert-base-mlm-b32-s128
bert="--model bert-base-mlm --batch 32 --seq 128"
ddp="$bert --parallel ddp --ranks 8 --freeze pooler"
twin ddp $plain bert-base-ddp $ddp
twin ddp $plain bert-base-ddp-view $ddp --bucket-view
twin accumulate+ddp $plain bert-base-ddp-accumulate-4 $ddp --accumulate 4
twin accumulate+ddp $plain bert-base-ddp-view-accumulate-4 $ddp --bucket-view --accumulate 4
twin checkpoint+ddp $plain bert-base-ddp-checkpoint $ddp --checkpoint block
fsdp="$bert --parallel fsdp --ranks 8"
twin fsdp $plain bert-base-fsdp $fsdp
twin fsdp $plain bert-base-fsdp-all $fsdp --reshard True
twin fsdp $plain bert-base-fsdp-none $fsdp --reshard False
twin checkpoint+fsdp $plain bert-base-fsdp-checkpoint $fsdp --checkpoint block
twin accumulate+fsdp $plain bert-base-fsdp-accumulate-4 $fsdp --accumulate 4
twin half+fsdp $plain bert-base-fsdp-bfloat16 $fsdp --param-dtype bfloat16
twin half+fsdp $plain bert-base-fsdp-bfloat16-reduce $fsdp --param-dtype bfloat16 --reduce-dtype bfloat16

gpt="--model gpt2-small --batch 8 --seq 1024"
twin ddp gpt2-small-b8-s1024 gpt2-small-ddp-view $gpt --parallel ddp --ranks 8 --bucket-view
twin fsdp gpt2-small-b8-s1024 gpt2-small-fsdp $gpt --parallel fsdp --ranks 3
twin checkpoint+half+fsdp gpt2-small-b8-s1024 gpt2-small-fsdp-bfloat16-checkpoint $gpt --parallel fsdp --ranks 8 --checkpoint block --param-dtype bfloat16 --reduce-dtype float32

resnet="--model resnet50 --batch 64 --optimizer sgd-momentum"
twin ddp resnet50-b64-i224 resnet50-ddp $resnet --parallel ddp --ranks 8
twin fsdp resnet50-b64-i224 resnet50-fsdp $resnet --parallel fsdp --ranks 8
