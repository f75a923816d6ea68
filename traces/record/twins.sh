# Twins: a plain recording, and the same with a technique really switched on.  Read by make_all.sh.
bert="--model bert-base-mlm --batch 32 --seq 128"
twin checkpoint bert-base-mlm-b32-s128 bert-base-checkpoint $bert --checkpoint block
twin checkpoint-reentrant bert-base-mlm-b32-s128 bert-base-checkpoint-reentrant $bert --checkpoint reentrant
twin accumulate-2 bert-base-mlm-b32-s128 bert-base-accumulate-2 $bert --accumulate 2
twin accumulate-4 bert-base-mlm-b32-s128 bert-base-accumulate-4 $bert --accumulate 4
twin accumulate-4-keep bert-base-mlm-b32-s128 bert-base-accumulate-4-keep $bert --accumulate 4 --keep-gradients
twin keep-gradients bert-base-mlm-b32-s128 bert-base-keep-gradients $bert --keep-gradients
twin amp-bfloat16 bert-base-mlm-b32-s128 bert-base-amp-bfloat16 $bert --precision amp-bfloat16
twin amp-float16 bert-base-mlm-b32-s128 bert-base-amp-float16 $bert --precision amp-float16
twin bfloat16 bert-base-mlm-b32-s128 bert-base-bfloat16 $bert --precision bfloat16
twin save-on-cpu bert-base-mlm-b32-s128 bert-base-save-on-cpu $bert --save-on-cpu
twin adamw-loop bert-base-mlm-b32-s128 bert-base-adamw-loop $bert --optimizer adamw-loop
twin adamw-fused bert-base-mlm-b32-s128 bert-base-adamw-fused $bert --optimizer adamw-fused
twin sgd bert-base-mlm-b32-s128 bert-base-sgd $bert --optimizer sgd
twin sgd-momentum bert-base-mlm-b32-s128 bert-base-sgd-momentum $bert --optimizer sgd-momentum
twin adafactor bert-base-mlm-b32-s128 bert-base-adafactor $bert --optimizer adafactor
twin untied bert-base-mlm-b32-s128 bert-base-untied $bert --untied
twin no-grad bert-base-mlm-b32-s128 bert-base-no-grad $bert --no-grad
resnet="--model resnet50 --batch 64 --optimizer sgd-momentum"
twin inplace resnet50-b64-i224 resnet50-inplace $resnet --inplace
twin checkpoint resnet50-b64-i224 resnet50-checkpoint $resnet --checkpoint block
twin inplace+checkpoint resnet50-b64-i224 resnet50-inplace-checkpoint $resnet --inplace --checkpoint block
twin accumulate-4 resnet50-b64-i224 resnet50-accumulate-4 $resnet --accumulate 4
twin amp-float16 resnet50-b64-i224 resnet50-amp-float16 $resnet --precision amp-float16
twin inplace vgg16-b64-i224 vgg16-inplace --model vgg16 --batch 64 --optimizer sgd-momentum --inplace
twin inplace unet-b8-i256 unet-inplace --model unet --batch 8 --optimizer adam --inplace
twin checkpoint unet-b8-i256 unet-checkpoint --model unet --batch 8 --optimizer adam --checkpoint block
twin checkpoint vit-b16-b64-i224 vit-b16-checkpoint --model vit-b16 --batch 64 --checkpoint block
twin sdpa vit-b16-b64-i224 vit-b16-sdpa --model vit-b16 --batch 64 --attention sdpa
gpt="--model gpt2-small --batch 8 --seq 1024"
twin checkpoint gpt2-small-b8-s1024 gpt2-small-checkpoint $gpt --checkpoint block
twin sdpa gpt2-small-b8-s1024 gpt2-small-sdpa $gpt --attention sdpa
twin checkpoint albert-base-b32-s128 albert-base-checkpoint --model albert-base --batch 32 --seq 128 --checkpoint block
