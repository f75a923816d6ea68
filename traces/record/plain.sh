# The plain recordings: name, then what record.py is asked for.  Read by make_all.sh.
plain bert-base-mlm-b32-s128 --model bert-base-mlm --batch 32 --seq 128
plain gpt2-small-b8-s1024 --model gpt2-small --batch 8 --seq 1024
plain resnet50-b64-i224 --model resnet50 --batch 64 --optimizer sgd-momentum
plain llama-7b-b1-s2048-bf16 --model llama-7b --batch 1 --seq 2048 --precision bfloat16 --attention sdpa
plain bert-base-mlm-b16-s512 --model bert-base-mlm --batch 16 --seq 512
plain bert-base-classifier-b28-s256 --model bert-base-classifier --batch 28 --seq 256
plain bert-base-mlm-b32-s128-sdpa --model bert-base-mlm --batch 32 --seq 128 --attention sdpa
plain bert-large-mlm-b8-s512 --model bert-large-mlm --batch 8 --seq 512
plain bert-large-classifier-b4-s512 --model bert-large-classifier --batch 4 --seq 512
plain bert-base-changing-b16 --model bert-base-changing --batch 16 --steps 6
plain resnet152-b32-i224 --model resnet152 --batch 32 --optimizer sgd-momentum
plain vgg16-b64-i224 --model vgg16 --batch 64 --optimizer sgd-momentum
plain vit-b16-b64-i224 --model vit-b16 --batch 64
plain vit-b16-b64-i224-bf16 --model vit-b16 --batch 64 --precision bfloat16 --attention sdpa
plain unet-b8-i256 --model unet --batch 8 --optimizer adam
plain sd-unet-b4-i512 --model sd-unet --batch 4
plain sd-unet-b4-i512-bf16 --model sd-unet --batch 4 --precision bfloat16 --attention sdpa
plain albert-base-b32-s128 --model albert-base --batch 32 --seq 128
plain lstm-650-b20-s35 --model lstm-650 --batch 20 --seq 35 --optimizer sgd
plain moe-small-b8-s512 --model moe-small --batch 8 --seq 512
plain gpt2-small-generate-b8-s128 --model gpt2-small-generate --batch 8 --seq 128
plain gpt2-xl-b2-s1024 --model gpt2-xl --batch 2 --seq 1024
plain gpt2-xl-b2-s1024-bf16 --model gpt2-xl --batch 2 --seq 1024 --precision bfloat16 --attention sdpa
